//! What a server has done so far.

use std::time::Duration;

use forebay_core::serving::ExportLevels;
use forebay_core::stats::Stats;

use super::listen::Peer;
use super::meter::{ClientCounters, LatencyReport, REQUEST_KINDS};
use crate::backend::Requests;

/// What a server has done so far.
#[derive(Debug)]
pub struct ServerReport {
    /// What the engine counted.
    pub stats: Stats,
    /// Time since it began.
    pub uptime: Duration,
    /// Page memory in bytes.
    pub cache: u64,
    /// Pages in memory.
    pub resident_pages: u64,
    /// The exports in their order.
    pub exports: Vec<ExportReport>,
    /// Clients that are connected, the oldest first.
    pub clients: Vec<ClientReport>,
}

/// What an export has done so far.
#[derive(Debug)]
pub struct ExportReport {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// Writes are refused.
    pub read_only: bool,
    /// Its pages as they are now.
    pub levels: ExportLevels,
    /// Reads of the store, and their bytes.
    pub store_reads: (u64, u64),
    /// Writes to the store, and their bytes.
    pub store_writes: (u64, u64),
    /// Flushes of the store.
    pub store_flushes: u64,
    /// What its reads have cost over a network, if it is behind one.
    pub requests: Option<Requests>,
    /// How long its requests took, in the order of [`REQUEST_KINDS`].
    pub latencies: [LatencyReport; REQUEST_KINDS.len()],
}

/// A client that is connected.
#[derive(Debug)]
pub struct ClientReport {
    /// Its number, which no other client of this server has.
    pub number: u64,
    /// The client.
    pub peer: Peer,
    /// Whether the connection is encrypted.
    pub tls: bool,
    /// The export, as a place in their order; none during the handshake.
    pub export: Option<usize>,
    /// Requests without a reply.
    pub in_flight: u32,
    /// Bytes of replies that it has not taken.
    pub untaken: u64,
    /// Its requests.
    pub counters: ClientCounters,
}
