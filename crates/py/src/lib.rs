//! penstock-py
