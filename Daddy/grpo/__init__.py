"""GRPO: a language model learns from rewards of its own completions.

grpo_settings     the settings of a run, chosen from the machine and the command line, with reasons
grpo_trainer      TRL: one training, its checkpoints, completions of the model
chat_tokens       tokens of episodes of several turns
tiny_model        a model that learns on a CPU: its tokenizer, and its cached warm start
base_models       folders of models by name
training_records  settings of a run, metrics and errors by step
reward_plot       rewards by step as a picture (matplotlib)
"""
