"""The relay's side of the stream: between the files of the jobs and one viewer."""
