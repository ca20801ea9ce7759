//! Tests of the images as their users see them.
#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

mod abuse;
mod any_profile;
mod conformance;
mod cramfs;
mod erofs;
mod kernel;
mod replay;
mod squashfs;
mod squashfs_craft;
mod squashfs_tree;
