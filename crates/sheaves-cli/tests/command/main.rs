//! The command from outside: every test starts `sheaves` as its users do.

mod allocators;
mod attached;
mod doctor;
mod guard;
mod hostile;
mod prof;
mod real_object;
mod refusals;
mod run;
mod running;
mod stand_in;
mod torture;
