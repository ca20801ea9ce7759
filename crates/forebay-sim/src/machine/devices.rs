//! From the numbers of a machine to its device.

use forebay_core::time::Duration;
use forebay_core::units::SECTOR_SIZE;

use super::{DeviceKind, Machine};
use crate::device::{
    Device, Fast, FastParameters, Hdd, HddParameters, Limit, Limits, OneNand, OneNandParameters,
    Raid0, Raid0Parameters, Ssd, SsdParameters,
};
use crate::rng::Rng;

/// The device of `machine`, idle; `seed` names its rotation and jitter.
pub(super) fn build(machine: &Machine, seed: u64) -> Box<dyn Device> {
    let device: Box<dyn Device> = match machine.kind {
        DeviceKind::Hdd => Box::new(Hdd::new(hdd(machine, machine.capacity_bytes()), seed)),
        DeviceKind::Fast => Box::new(Fast::new(fast(machine), seed)),
        DeviceKind::Ssd => Box::new(Ssd::new(ssd(machine), seed)),
        DeviceKind::Raid0 => Box::new(raid0(machine, seed)),
        DeviceKind::OneNand => Box::new(OneNand::new(onenand(machine), seed)),
    };
    limits(machine).around(device)
}

fn limits(machine: &Machine) -> Limits {
    let limit = |requests, rate| Limit {
        requests_per_s: machine.number(requests),
        bytes_per_s: machine.number(rate),
    };
    Limits {
        reads: limit("device.limit_reads", "device.limit_read_rate"),
        writes: limit("device.limit_writes", "device.limit_write_rate"),
        window: Duration(machine.number("device.limit_window")),
    }
}

fn hdd(machine: &Machine, capacity_bytes: u64) -> HddParameters {
    HddParameters {
        capacity_sectors: capacity_bytes / SECTOR_SIZE,
        rate_outer_bytes_per_s: machine.number("device.rate_outer"),
        inner_share_ppm: machine.number("device.inner_share"),
        interface_bytes_per_s: machine.number("device.interface_rate"),
        command_ns: machine.number("device.command"),
        seek_min_ns: machine.number("device.seek_min"),
        seek_third_ns: machine.number("device.seek_third"),
        seek_full_ns: machine.number("device.seek_full"),
        rotation_ns: machine.number("device.rotation"),
        segment_bytes: machine.number("device.segment"),
        write_cache_bytes: machine.number("device.write_cache"),
        jitter_sigma_ppm: machine.number("device.jitter"),
    }
}

fn fast(machine: &Machine) -> FastParameters {
    FastParameters {
        units: machine.count("device.units"),
        delay_ns: machine.number("device.delay"),
        unit_bytes_per_s: machine.number("device.unit_rate"),
        link_bytes_per_s: machine.number("device.link_rate"),
        stripe_bytes: machine.number("device.stripe"),
        flush_ns: machine.number("device.flush"),
        write_delay_ns: machine.number("device.write_delay"),
        write_bytes_per_s: machine.number("device.write_rate"),
        write_buffer_bytes: machine.number("device.write_buffer"),
        jitter_sigma_ppm: machine.number("device.jitter"),
        tail_ppm: machine.number("device.tail"),
        tail_ns: machine.number("device.tail_delay"),
    }
}

fn ssd(machine: &Machine) -> SsdParameters {
    SsdParameters {
        dies: machine.count("device.dies"),
        stripe_bytes: machine.number("device.stripe"),
        flash_bytes: machine.number("device.flash"),
        buffer_bytes: machine.number("device.buffer"),
        buffer_bytes_per_s: machine.number("device.buffer_rate"),
        flash_bytes_per_s: machine.number("device.flash_rate"),
        fold_bytes_per_s: machine.number("device.fold_rate"),
        fold_after_ns: machine.number("device.fold_after"),
        live_bytes: machine.number("device.live"),
        random_bytes: machine.number("device.random_region"),
        efficiency_ppm: machine.number("device.efficiency"),
        interface_bytes_per_s: machine.number("device.interface_rate"),
        command_ns: machine.number("device.command"),
        write_command_ns: machine.number("device.write_command"),
        read_ns: machine.number("device.read"),
        program_ns: machine.number("device.program"),
        write_cache_bytes: machine.number("device.write_cache"),
        flush_ns: machine.number("device.flush"),
        jitter_sigma_ppm: machine.number("device.jitter"),
    }
}

fn onenand(machine: &Machine) -> OneNandParameters {
    OneNandParameters {
        load_ns: machine.number("device.load"),
        transfer_ns: machine.number("device.transfer"),
        command_ns: machine.number("device.command"),
        register_ns: machine.number("device.register"),
        polls: machine.number("device.polls") == 1,
        overlap: machine.number("device.overlap") == 1,
        program_ns: machine.number("device.program"),
        jitter_sigma_ppm: machine.number("device.jitter"),
    }
}

/// An array whose members share the capacity evenly and turn independently.
fn raid0(machine: &Machine, seed: u64) -> Raid0 {
    let members = machine.number("device.members");
    let disk = hdd(machine, machine.capacity_bytes() / members);
    let seeds = Rng::new(seed);
    let member = |number| {
        let seed = seeds.fork("raid0-member", number).next_u64();
        Box::new(Hdd::new(disk, seed)) as Box<dyn Device>
    };
    let parameters = Raid0Parameters {
        stripe_unit_bytes: machine.number("device.stripe_unit"),
        bus_bytes_per_s: machine.number("device.bus_rate"),
    };
    Raid0::new((0..members).map(member).collect(), parameters)
}
