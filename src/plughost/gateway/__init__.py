"""The gateway: the control plane of plughost over HTTP."""
