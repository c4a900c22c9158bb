"""Background tasks of jobs and laptops, on threads beside learning and playing."""
