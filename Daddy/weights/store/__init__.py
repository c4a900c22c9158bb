"""The folder protocol on disk.

store          card, blobs, versions, heads (no torch)
records        records on disk, as plain values (pure)
strict_json    JSON read strictly into dataclasses (pure)
durable        files whole or not at all, with named crash points
heartbeats     signs of life of each process (no torch)
delivery       versions as laptops are offered them (no torch)
kept_versions  versions to go back to, beyond the newest (no torch)
rebuild        a version again from its inputs: verify, repair
"""
