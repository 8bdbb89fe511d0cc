//! Guests.
