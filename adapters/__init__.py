"""The platforms: each adapter turns a platform's events into `Inbound` and posts `Outbound`, and knows nothing else."""
