"""A first look: one function of one variable, its formula, its derivatives, and how they are checked.

Run it with ``python examples/02_scalar_derivatives.py``.
"""

import math

import numpy as np

import symgrad as sg


def damped(t):
    """A vibration that dies out."""
    return np.exp(-0.5 * t) * np.sin(3 * t)


def central_difference(f, t, step):
    """Approximate f'(t) from two values of f."""
    return (f(t + step) - f(t - step)) / (2 * step)


t = 1.2

print("the function     ", sg.formula(damped, t))
print("its derivative   ", sg.formula(damped, t, wrt="t"))

velocity = sg.grad(damped)
acceleration = sg.grad(velocity)
print("\nat t = 1.2")
print(f"  value            {damped(t): .15f}")
print(f"  first derivative {velocity(t): .15f}")
print(f"  second           {acceleration(t): .15f}")

# Worked by hand: f' = e^(-t/2) (3 cos 3t - sin(3t)/2) and f'' = -f' - 37/4 f.
by_hand = math.exp(-t / 2) * (3 * math.cos(3 * t) - math.sin(3 * t) / 2)
print(f"\nfirst derivative worked by hand {by_hand: .15f}")
print(f"second derivative worked by hand{-by_hand - 37 / 4 * damped(t): .15f}")

print("\nfinite differences lose digits: a large step cuts the series short, a small one cancels")
print("  step      error")
for exponent in (1, 3, 5, 7, 9, 11, 13):
    step = 10.0**-exponent
    error = abs(central_difference(damped, t, step) - velocity(t))
    print(f"  1e-{exponent:02d}     {error:.0e}")

print("\nsymgrad compares for you, with a step chosen for each order:")
print(sg.check_grads(damped, (t,)))
