"""Logistic regression with a dictionary of parameters, on a data set made with a fixed seed.

Run it with ``python examples/03_logistic_regression.py``.
"""

import numpy as np

import symgrad as sg

SAMPLES, FEATURES = 400, 5
TRUE_WEIGHTS = np.array([1.5, -2.0, 0.0, 0.5, 1.0])
TRUE_BIAS = -0.5
PENALTY = 1e-3


def make_data(seed=7):
    """Draw features from a normal distribution and labels from the model itself."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(SAMPLES, FEATURES))
    probability = 1 / (1 + np.exp(-(features @ TRUE_WEIGHTS + TRUE_BIAS)))
    return features, (rng.random(SAMPLES) < probability).astype(float)


def loss(params, features, labels):
    """Mean negative log-likelihood, with a small ridge penalty on the weights."""
    logits = features @ params["weights"] + params["bias"]
    nll = np.mean(np.logaddexp(0.0, logits) - labels * logits)
    return nll + PENALTY * np.sum(params["weights"] ** 2)


def main():
    """Fit by gradient descent with Nesterov's momentum."""
    features, labels = make_data()
    value_and_grad = sg.value_and_grad(loss)
    params = {"weights": np.zeros(FEATURES), "bias": 0.0}
    ahead = params
    for step in range(301):
        value, gradient = value_and_grad(ahead, features, labels)
        if step % 50 == 0:
            size = np.sqrt(np.sum(gradient["weights"] ** 2) + gradient["bias"] ** 2)
            print(f"step {step:>3}   loss {value:.12f}   size of the gradient {size:.1e}")
        moved = {name: ahead[name] - 2.0 * gradient[name] for name in params}
        momentum = step / (step + 3)
        ahead = {name: moved[name] + momentum * (moved[name] - params[name]) for name in params}
        params = moved

    # At the minimum the bias has no penalty, so the probabilities must add up to the number of ones.
    probability = 1 / (1 + np.exp(-(features @ params["weights"] + params["bias"])))
    print("\nweights", np.array2string(params["weights"], precision=3), f"bias {params['bias']:.3f}")
    print("true   ", np.array2string(TRUE_WEIGHTS, precision=3), f"bias {TRUE_BIAS:.3f}")
    print(f"right on {np.mean((probability > 0.5) == labels):.1%} of the samples")
    print(f"sum of probabilities {np.sum(probability):.6f}, ones among the labels {np.sum(labels):.6f}")


if __name__ == "__main__":
    main()
