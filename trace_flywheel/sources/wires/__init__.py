"""One message dialect one file: provider JSON to canonical messages."""
