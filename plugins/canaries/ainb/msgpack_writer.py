"""As much of msgpack as a chunk needs."""


def encode(value):
    if value is None or isinstance(value, bool):
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    if isinstance(value, int):
        return b"\xcf" + value.to_bytes(8)
    if isinstance(value, str):
        data = value.encode()
        return b"\xdb" + len(data).to_bytes(4) + data
    if isinstance(value, list):
        return b"\xdd" + len(value).to_bytes(4) + b"".join(map(encode, value))
    pairs = [encode(key) + encode(item) for key, item in value.items()]
    return b"\xdf" + len(pairs).to_bytes(4) + b"".join(pairs)
