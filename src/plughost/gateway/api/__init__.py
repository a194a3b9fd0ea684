"""The resources of the gateway's API, one file each."""
