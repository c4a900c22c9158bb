"""Terminal tasks: an agent types into a terminal in a sandbox, and a verifier grades its files.

dockerfile        parser of a Dockerfile: image, packages and steps
task_folder       reads a task folder in Harbor's format
task_sandboxes    sandboxes of a task, with the Dockerfile's steps done once
tmux_session      types keys and reads the screen
reward_files      reader of the reward that a verifier wrote
verifier          grades an episode in a fresh sandbox
episode_records   trajectory, asciicast and result of an episode
harbor_adapter    sandboxes for Harbor's trials
terminal_gym      the environment: reset, step, verify, close
terminus_reply    parser of a model's replies
agents            solution, nobody, a person, a model at a URL
tinker_adapter    the environment for tinker-cookbook, in groups
terminal_rollout  plays the episodes of a training's batch, side by side
tiny_terminal_corpus  right and wrong replies that warm up the tiny model
"""
