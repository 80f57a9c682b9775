# From a bare machine (Debian, root; rustup, Node 20, Python 3.11 with pip), each of these installs what it lacks and says so.
.PHONY: run test pkg forms consumers vectors mutants bench evaluate audit

# The page, served, with the real model behind it. PORT and DATA are honoured.
run:
	@scripts/run

# Everything, browsers included.
test:
	@scripts/test

# The npm package, rebuilt into pkg/, which is committed.
pkg:
	@scripts/build-pkg pkg

# What follows from the declarations of the forms: JSON Schemas, types, the page's list of processors;
# and from those of the server's messages: server/openapi.json, the tables of server/API.md, the page's types of the answers.
forms:
	@QUILLMATE_WRITE_FORMS=1 cargo test --quiet --release -p quillmate-sampler --features parallel --lib files_are_as_the_forms_are_declared
	@RUSTFLAGS="-C target-cpu=native" CARGO_TARGET_DIR=target/native QUILLMATE_WRITE_FORMS=1 \
		cargo test --quiet --release -p quillmate-server -p quillmate-evaluate --test server files_are_as_the_messages_are_declared

# The npm package in every tool its users have, into docs/consumers.md; `make test` runs those that cost seconds.
consumers:
	@scripts/consumers

# Every expected value in tests/vectors/, computed from the inputs beside it by the reference in reference/. With CHECK=1 nothing
# is written and a difference fails; `make test` runs it so.
vectors:
	@scripts/vectors $(if $(CHECK),--check)

# Small faults put into the source one at a time: which of them no test notices. FILES=exp tries those of the files that match.
mutants:
	@scripts/mutants

# Times, into benches/results.json, docs/speed.md and the README's chart: the fast path against the contract (ten million draws), every path,
# other samplers, Chromium, a story's token from end to end. `scripts/bench PART` runs a part.
bench:
	@scripts/bench

# Two settings compared on sixty prompts: A and B, JSON or files of it. OUT and SCHEMA are honoured.
evaluate:
	@scripts/evaluate

# Licences, duplicates, sources and advisories of the dependencies. A step of a release (CONTRIBUTING.md).
audit:
	@scripts/audit
