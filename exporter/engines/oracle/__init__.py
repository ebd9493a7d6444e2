"""The engine of Oracle Database, by python-oracledb without client libraries (thin) or with them (thick)."""
