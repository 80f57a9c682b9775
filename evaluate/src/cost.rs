//! What a text costs the machine.

use std::time::Duration;

/// Processor time of this process so far, of all its threads, user and system; `None` where the system does not tell.
#[cfg(unix)]
pub fn cpu() -> Option<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?);
    Some(Duration::new(seconds, nanoseconds))
}

/// Processor time of this process so far; this system is not asked.
#[cfg(not(unix))]
pub fn cpu() -> Option<Duration> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn processor_time_goes_on_with_work() {
        let began = cpu().unwrap();
        let mut sum = 0u64;
        while cpu().unwrap() < began + Duration::from_millis(5) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(sum > 0);
    }
}
