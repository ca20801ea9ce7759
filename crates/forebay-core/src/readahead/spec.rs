//! A policy by name and parameters, as a user types it: `request-size:max=32,previous=off`.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use super::{POLICIES, Readahead};

/// The usual read-ahead limit of a device, 128 KiB in pages.
const RA_PAGES_DEFAULT: u64 = 32;

/// One line of the table of policies.
#[derive(Debug)]
pub struct Policy {
    /// What a user types.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Where the rule comes from.
    pub source: &'static str,
    /// What can be set.
    pub parameters: &'static [Parameter],
    /// Makes the state of a freshly opened file.
    pub(super) build: fn(&Values<'_>) -> Box<dyn Readahead>,
}

/// A number that a policy takes.
#[derive(Debug)]
pub struct Parameter {
    /// What a user types before the `=`.
    pub name: &'static str,
    /// The value if none is given.
    pub default: u64,
    /// The least value.
    pub low: u64,
    /// The greatest value; a parameter from 0 to 1 may be typed as `off` and `on`.
    pub high: u64,
    /// What it means, with its unit.
    pub summary: &'static str,
}

/// Limits that the device and file system set for every policy that knows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The device's read-ahead limit in pages (`max`), if it differs from the policy's own.
    pub ra_pages: Option<u64>,
    /// The largest request of the device in pages (`io`).
    pub io_pages: Option<u64>,
    /// Whether the file system caches in large folios (`folios`).
    pub large_folios: Option<bool>,
}

/// A policy and the values of its parameters.
#[derive(Clone, Debug)]
pub struct Spec {
    policy: &'static Policy,
    values: Vec<u64>,
    given: Vec<bool>,
}

/// What is wrong with a typed policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecError {
    /// No policy has this name.
    UnknownPolicy(String),
    /// The policy has no such parameter; it has these.
    UnknownParameter {
        /// The policy.
        policy: &'static str,
        /// What was typed.
        given: String,
        /// What could have been typed.
        known: Vec<&'static str>,
    },
    /// The value is not a number in the range.
    BadValue {
        /// The parameter.
        parameter: &'static str,
        /// What was typed.
        given: String,
        /// The least value.
        low: u64,
        /// The greatest value.
        high: u64,
    },
}

/// The values that a policy is built from.
pub(super) struct Values<'a> {
    parameters: &'static [Parameter],
    values: &'a [u64],
}

impl Values<'_> {
    /// The value of the parameter `name`, which the policy has declared.
    pub(super) fn of(&self, name: &str) -> u64 {
        let found = self.parameters.iter().position(|parameter| parameter.name == name);
        self.values[found.expect("a policy reads only parameters that it declares")]
    }

    /// The value of a parameter from 0 to 1.
    pub(super) fn on(&self, name: &str) -> bool {
        self.of(name) == 1
    }
}

impl Spec {
    /// Reads `NAME` or `NAME:KEY=VALUE,KEY=VALUE`.
    ///
    /// # Errors
    /// Names the part that is not a policy, not a parameter or not a value in range.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let policy = POLICIES
            .iter()
            .find(|policy| policy.name == name)
            .ok_or_else(|| SpecError::UnknownPolicy(name.to_string()))?;
        let values = policy.parameters.iter().map(|parameter| parameter.default).collect();
        let mut spec = Self { policy, values, given: alloc::vec![false; policy.parameters.len()] };
        for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
            spec.set(setting)?;
        }
        Ok(spec)
    }

    /// Lets the device's limits stand where the user gave none; values beyond a parameter's range
    /// become its nearest end. A policy's own `max` is meant for a device of 32 pages and grows
    /// with the device's limit: one that doubles it keeps doubling it.
    #[must_use]
    pub fn with(mut self, settings: Settings) -> Self {
        let limits = [
            ("max", settings.ra_pages),
            ("io", settings.io_pages),
            ("folios", settings.large_folios.map(u64::from)),
        ];
        for (index, parameter) in self.policy.parameters.iter().enumerate() {
            let limit = limits.iter().find(|(name, _)| *name == parameter.name);
            if let (Some((_, Some(value))), false) = (limit, self.given[index]) {
                let value = match parameter.name {
                    "max" => value.saturating_mul(parameter.default) / RA_PAGES_DEFAULT,
                    _ => *value,
                };
                self.values[index] = value.clamp(parameter.low, parameter.high);
            }
        }
        self
    }

    /// Sets a parameter unless the user gave it or the policy has none of this name.
    ///
    /// # Errors
    /// The value is out of the parameter's range.
    pub fn or(mut self, name: &str, value: u64) -> Result<Self, SpecError> {
        let place = self.policy.parameters.iter().position(|parameter| parameter.name == name);
        if let Some(place) = place.filter(|place| !self.given[*place]) {
            let parameter = &self.policy.parameters[place];
            if !(parameter.low..=parameter.high).contains(&value) {
                return Err(SpecError::BadValue {
                    parameter: parameter.name,
                    given: value.to_string(),
                    low: parameter.low,
                    high: parameter.high,
                });
            }
            self.values[place] = value;
        }
        Ok(self)
    }

    /// The state of a freshly opened file.
    pub fn build(&self) -> Box<dyn Readahead> {
        (self.policy.build)(&Values { parameters: self.policy.parameters, values: &self.values })
    }

    /// The line of the table.
    pub fn policy(&self) -> &'static Policy {
        self.policy
    }

    fn set(&mut self, setting: &str) -> Result<(), SpecError> {
        let (key, value) = setting.split_once('=').unwrap_or((setting, "on"));
        let parameters = self.policy.parameters;
        let index =
            parameters.iter().position(|parameter| parameter.name == key).ok_or_else(|| {
                SpecError::UnknownParameter {
                    policy: self.policy.name,
                    given: key.to_string(),
                    known: parameters.iter().map(|parameter| parameter.name).collect(),
                }
            })?;
        let parameter = &parameters[index];
        let number = match value {
            "on" if parameter.high == 1 => Some(1),
            "off" if parameter.high == 1 => Some(0),
            digits => digits.parse().ok(),
        };
        match number {
            Some(number) if (parameter.low..=parameter.high).contains(&number) => {
                self.values[index] = number;
                self.given[index] = true;
                Ok(())
            }
            Some(_) | None => Err(SpecError::BadValue {
                parameter: parameter.name,
                given: value.to_string(),
                low: parameter.low,
                high: parameter.high,
            }),
        }
    }
}

impl fmt::Display for Spec {
    /// The name and the values that were given, in the form that [`Spec::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.policy.name)?;
        let mut separator = ':';
        for (index, parameter) in self.policy.parameters.iter().enumerate() {
            if self.given[index] {
                write!(f, "{separator}{}={}", parameter.name, self.values[index])?;
                separator = ',';
            }
        }
        Ok(())
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPolicy(name) => write!(f, "no readahead policy is named '{name}'"),
            Self::UnknownParameter { policy, given, known } if known.is_empty() => {
                write!(f, "the policy '{policy}' takes no parameters, not '{given}'")
            }
            Self::UnknownParameter { policy, given, known } => {
                write!(f, "the policy '{policy}' has no parameter '{given}', but ")?;
                f.write_str(&known.join(", "))
            }
            Self::BadValue { parameter, given, low, high } => {
                write!(f, "'{parameter}' takes a number from {low} to {high}, not '{given}'")
            }
        }
    }
}

impl core::error::Error for SpecError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_prints_as_it_was_typed() {
        for text in ["off", "fixed", "fixed:max=8"] {
            assert_eq!(Spec::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn the_device_sets_what_the_user_left_open() {
        let settings = Settings { ra_pages: Some(256), ..Settings::default() };
        let open = Spec::parse("fixed").unwrap().with(settings);
        let given = Spec::parse("fixed:max=8").unwrap().with(settings);
        assert_eq!((open.values[0], given.values[0]), (256, 8));
    }

    #[test]
    fn a_limit_stands_unless_the_user_gave_one() {
        let max = |text| Spec::parse(text).unwrap().or("max", 8).unwrap().values[0];
        assert_eq!((max("fixed"), max("fixed:max=4")), (8, 4));
        assert!(Spec::parse("fixed").unwrap().or("max", 0).is_err());
        assert!(Spec::parse("off").unwrap().or("max", 0).is_ok());
    }

    #[test]
    fn errors_name_what_was_typed_and_what_could_be() {
        let message = |text| Spec::parse(text).unwrap_err().to_string();
        assert_eq!(message("fixd"), "no readahead policy is named 'fixd'");
        assert_eq!(message("fixed:mx=3"), "the policy 'fixed' has no parameter 'mx', but max");
        assert_eq!(message("fixed:max=0"), "'max' takes a number from 1 to 65536, not '0'");
        assert_eq!(message("off:max=0"), "the policy 'off' takes no parameters, not 'max'");
    }
}
