//! This server as a replica: the connection to its primary, its image, and its stream.

#[cfg(test)]
mod agreement;
mod apply;
mod follow;
mod follower;
mod handshake;
mod receive;

pub(crate) use follower::Follower;
