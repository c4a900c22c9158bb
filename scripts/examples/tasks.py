"""Tasks for `train.py`. Add an entry to TASKS to train on it, too.

prompt           the function's beginning, which the model continues
func_name        the name of the function
banned_patterns  names, calls, attributes, `import` or pieces of code that a solution may not use
tests            inputs as expressions; `random` is seeded anew for each step of a run
reference        the right answer for an input `xs`, or a function that gives it
"""


def best_sum(xs: list[int]) -> int:
    """Return the largest of all sums of neighbours."""
    ends = range(1, len(xs) + 1)
    return max(sum(xs[first:end]) for end in ends for first in range(end))


TASKS = {
    "sort_numbers": {
        "prompt": '''def sort_numbers(xs):
    """Return a new list with the numbers of xs, from the smallest to the largest.

    It may use neither the built-in ways to sort nor any module.
    """
''',
        "func_name": "sort_numbers",
        "banned_patterns": ["sorted(", ".sort(", "heapq", "import "],
        "tests": [
            "[]",
            "[1, 5, 2]",
            "[random.randint(-9, 9) for _ in range(8)]",
            "random.choices(range(-3, 4), k=12)",
            "[random.randint(-99, 99) for _ in range(30)]",
        ],
        "reference": "sorted",
    },
    "max_subarray_sum": {
        "prompt": '''def max_subarray_sum(xs):
    """Return the largest sum of neighbouring numbers in xs.

    At least one number is taken, and xs is never empty.
    """
''',
        "func_name": "max_subarray_sum",
        "banned_patterns": [],
        "tests": [
            "[5]",
            "[-4, -1, -7]",
            "[2, -5, 3, 4, -1]",
            "[random.randint(-9, -1) for _ in range(6)]",
            "[random.randint(-9, 9) for _ in range(10)]",
            "[random.randint(0, 9) for _ in range(12)]",
            "[random.randint(-99, 99) for _ in range(40)]",
        ],
        "reference": "best_sum(xs)",
    },
}
