"""The files of a shared weights folder and the rules for writing them.

weight_store       run card, blobs, versions, heads (no torch)
weight_records     records on disk, as plain values (pure)
strict_json        JSON read strictly into dataclasses (pure)
crash_safe_files   files written whole or not at all, with named crash points
heartbeats         heartbeats of each process (no torch)
laptop_downloads   versions as laptops fetch them (no torch)
version_retention  versions to go back to, beyond the newest (no torch)
rebuild_version    a version rebuilt from its inputs: verify, repair
"""
