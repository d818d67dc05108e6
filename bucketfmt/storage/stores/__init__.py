"""The stores: local disks, and each service."""
