"""The learner's side of the stream: memory shared with its streamer, and the job's own port."""
