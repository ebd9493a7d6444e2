"""What the operator wrote: schema, secrets, loader and the references generated from them."""
