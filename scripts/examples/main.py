"""Print the commands of this folder."""

print("python run_demo.py --sandboxes 25 --episodes 300")
print("python cartpole_task.py SANDBOX_ID EPISODES LEARNING_RATE")
print("python train.py")
print("./devops/setup_docker_sandbox.sh")
print("./devops/docker_launch.py status | run | shell | logs | stop")
