"""Functions as scientists write them for NumPy, unmodified: values, and gradients against finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest

import symgrad as sg


def bisection(p):
    """Root of x³ + p₀ x - p₁, polished by Newton so that it depends smoothly on p."""
    low, high = -10.0, 10.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        if middle**3 + p[0] * middle - p[1] > 0:
            high = middle
        else:
            low = middle
    x = middle
    for _ in range(3):
        x = x - (x**3 + p[0] * x - p[1]) / (3 * x**2 + p[0])
    return x


def newton(p):
    x = p[0]
    for _ in range(50):
        step = (np.exp(x) - p[1] * x - 2.0) / (np.exp(x) - p[1])
        x = x - step
        if abs(step) < 1e-12:
            break
    return x


def adaptive_runge_kutta(p):
    """Bogacki-Shampine steps for y' = -p₀ y + p₁ sin(t), with step control."""

    def slope(t, y):
        return -p[0] * y + p[1] * np.sin(t)

    t, y, h = 0.0, 1.0, 0.1
    while t < 1.0:
        h = min(h, 1.0 - t)
        k1 = slope(t, y)
        k2 = slope(t + h / 2, y + h / 2 * k1)
        k3 = slope(t + 3 * h / 4, y + 3 * h / 4 * k2)
        new = y + h * (2 * k1 + 3 * k2 + 4 * k3) / 9
        k4 = slope(t + h, new)
        error = abs(h * (-5 * k1 / 72 + k2 / 12 + k3 / 9 - k4 / 8))
        if error < 1e-4:
            t, y = t + h, new
        h = h * (1.5 if error < 2e-5 else 0.6 if error > 1e-4 else 1.0)
    return y


def thomas(p):
    """Tridiagonal system, solved in place."""
    n = len(p)
    a, b, c, d = -np.ones(n), 3.0 + p**2, -np.ones(n), p.copy()
    for i in range(1, n):
        w = a[i] / b[i - 1]
        b[i] -= w * c[i - 1]
        d[i] -= w * d[i - 1]
    x = np.zeros(n)
    x[-1] = d[-1] / b[-1]
    for i in range(n - 2, -1, -1):
        x[i] = (d[i] - c[i] * x[i + 1]) / b[i]
    return np.sum(x**2)


def viterbi(p):
    """Score of the best path through a trellis with transition costs |i - j| p₀."""
    emissions = np.array([[1.0, 0.2, 0.5], [0.1, 1.1, 0.4], [0.7, 0.3, 0.9], [0.2, 0.8, 0.6]])
    score = emissions[0] * p[1]
    for row in emissions[1:]:
        new = np.zeros(3)
        for j in range(3):
            best = score[0] - p[0] * abs(0 - j)
            for i in range(1, 3):
                candidate = score[i] - p[0] * abs(i - j)
                if candidate > best:  # noqa: PLR1730 - written as a branch on purpose
                    best = candidate
            new[j] = best + row[j] * p[1] ** 2
        score = new
    return max(score)


def dynamic_time_warping(p):
    x, y = p[:3] * 1.0, np.array([0.2, 1.1, 0.4, 0.9])
    cost = np.full((4, 5), np.inf)
    cost[0, 0] = 0.0
    for i in range(1, 4):
        for j in range(1, 5):
            distance = (x[i - 1] - y[j - 1]) ** 2
            cost[i, j] = distance + min(cost[i - 1, j], cost[i, j - 1], cost[i - 1, j - 1])
    return cost[-1, -1]


def particle_in_a_box(p):
    position, velocity = np.array([0.3, 0.6]), np.array([p[0], -p[1]])
    for _ in range(30):
        position = position + 0.1 * velocity
        for k in range(2):
            if position[k] < 0:
                position[k] = -position[k]
                velocity[k] = -velocity[k]
            elif position[k] > 1:
                position[k] = 2 - position[k]
                velocity[k] *= -0.9
    return position @ position


def tax(p):
    """Piecewise schedule: each bracket taxes what lies in it."""
    brackets = [(0.0, 0.0), (1.0, 0.2), (2.5, 0.3), (4.0, 0.45)]
    due = 0.0
    for income in p * 2.0:
        for k, (start, rate) in enumerate(brackets):
            end = brackets[k + 1][0] if k + 1 < len(brackets) else float("inf")
            if income > start:
                due = due + rate * (min(income, end) - start)
    return due


def american_put(p):
    """Binomial tree with early exercise."""
    spot, volatility, strike, rate, n = 1.0 + p[0] / 10, 0.2 + p[1] / 20, 1.1, 0.05, 6
    dt = 1.0 / n
    up = math.exp(volatility * math.sqrt(dt))
    q = (math.exp(rate * dt) - 1 / up) / (up - 1 / up)
    values = [max(strike - spot * up ** (2 * k - n), 0.0) for k in range(n + 1)]
    for level in range(n - 1, -1, -1):
        for k in range(level + 1):
            hold = math.exp(-rate * dt) * (q * values[k + 1] + (1 - q) * values[k])
            values[k] = max(hold, strike - spot * up ** (2 * k - level))
    return values[0]


def pid(p):
    """Controller with clipped output and anti-windup."""
    state, integral, previous, total = 0.0, 0.0, 1.0, 0.0
    for _ in range(25):
        error = 1.0 - state
        integral += error * 0.1
        output = p[0] * error + p[1] * integral + 0.05 * (error - previous) / 0.1
        if output > 1.5:
            output = 1.5
            integral -= error * 0.1
        previous = error
        state = state + 0.1 * (output - 0.5 * state)
        total += error**2
    return total


def cholesky_by_loops(p):
    a = np.outer(p, p) + np.diag(2.0 + p**2)
    n = len(p)
    lower = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            s = a[i, j]
            for k in range(j):
                s -= lower[i, k] * lower[j, k]
            if i == j:
                lower[i, i] = np.sqrt(s)
            else:
                lower[i, j] = s / lower[j, j]
    return 2 * np.sum(np.log(np.diag(lower)))


def nearest_centre(p):
    """One step of k-means, and the scatter after it."""
    points = np.array([[0.0, 0.1], [0.2, 0.0], [1.0, 0.9], [0.8, 1.1], [0.5, 0.4]])
    centres = np.array([[p[0], p[1]], [p[2], 1.0]])
    total = 0.0
    for point in points:
        distances = np.sum((centres - point) ** 2, axis=1)
        total += distances[int(np.argmin(distances))]
    return total


def bubble_sort(p):
    x = p * 1.0
    n = len(x)
    for i in range(n):
        for j in range(n - 1 - i):
            if x[j] > x[j + 1]:
                x[j], x[j + 1] = x[j + 1], x[j]
    return np.sum(x * np.arange(1.0, n + 1))


def determinant_by_elimination(p):
    m = np.array([[p[0], 1.0, 2.0], [3.0, p[1], 1.0], [1.0, 2.0, p[2]]])
    sign = 1.0
    for k in range(3):
        pivot = k + int(np.argmax(np.abs(m[k:, k])))
        if pivot != k:
            m[[k, pivot]] = m[[pivot, k]]
            sign = -sign
        for i in range(k + 1, 3):
            m[i, k:] -= m[i, k] / m[k, k] * m[k, k:]
    return sign * np.prod(np.diag(m))


PROGRAMS = [
    bisection, newton, adaptive_runge_kutta, thomas, viterbi, dynamic_time_warping, particle_in_a_box, tax,
    american_put, pid, cholesky_by_loops, nearest_centre, bubble_sort, determinant_by_elimination,
]  # fmt: skip
POINTS = [np.array([0.83, 1.37, 0.52, 1.91]), np.array([1.61, 0.74, 1.13, 0.35])]


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_values_and_gradients(program, backend):
    with sg.config(backend=backend):
        value_and_grad = sg.value_and_grad(program)
        for p in [*POINTS, POINTS[0]]:
            value, gradient = value_and_grad(p)
            assert value == pytest.approx(program(p), rel=1e-12)
            steps = 1e-6 * np.eye(4)
            numeric = [(program(p + h) - program(p - h)) / 2e-6 for h in steps]
            np.testing.assert_allclose(gradient, numeric, rtol=2e-5, atol=1e-7)
    assert value_and_grad.cache_info().traces <= 2
