"""Who can take part. Nothing is imported here: peers use parts of it in environments of their own."""
