"""What is done to a target; knows engines only through `engines.base`."""
