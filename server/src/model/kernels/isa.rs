//! The sets of instructions that kernels are compiled for.

/// Which instructions the kernels use. It changes how long they take and not a bit of what they give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Isa(pub(super) Kind);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    // Made by `detect` alone: to hold one is to know that the processor has AVX2 and F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Isa {
    /// The best this processor has.
    #[must_use]
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("f16c") {
            return Self(Kind::Avx2);
        }
        Self::plain()
    }

    /// Plain Rust, for every processor.
    #[must_use]
    pub fn plain() -> Self {
        Self(Kind::Plain)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Plain => "plain",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "avx2",
        }
    }
}

/// Calls a body that is written once, compiled for the instructions at hand.
macro_rules! compiled_for {
    ($isa:expr, $body:ident($($name:ident: $kind:ty),*)) => {
        match $isa.0 {
            $crate::model::kernels::isa::Kind::Plain => $body($($name),*),
            #[cfg(target_arch = "x86_64")]
            $crate::model::kernels::isa::Kind::Avx2 => {
                #[target_feature(enable = "avx2")]
                fn avx2($($name: $kind),*) {
                    $body($($name),*)
                }
                // SAFETY: `Kind::Avx2` exists only where AVX2 was found.
                unsafe { avx2($($name),*) }
            }
        }
    };
}
pub(super) use compiled_for;
