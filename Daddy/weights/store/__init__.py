"""The folder protocol on disk.

store        card, blobs, versions, heads (no torch)
records      what stands on disk, as plain values (pure)
strict_json  JSON read strictly into dataclasses (pure)
durable      files whole or not at all, with named crash points
"""
