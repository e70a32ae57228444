//! The replica group: singleton leases with fencing tokens.
