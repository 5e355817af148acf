"""`.atraj` recordings to SFT rows and pairs: `flywheel traces-to-data`."""
