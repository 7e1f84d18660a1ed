//! The axioms of the Linux kernel's memory model, for executions of the subset that `parse` reads.
//!
//! Written from the published descriptions: J. Alglave, L. Maranget, P. McKenney, A. Parri, A.
//! Stern, "Frightening Small Children and Disconcerting Grown-ups: Concurrency in the Linux
//! Kernel", ASPLOS 2018, and A. Stern's text `explanation.txt` in
//! `tools/memory-model/Documentation` of a kernel tree, whose names for relations are used here.
//! From the text are the sequences of exchanges in `cumul_fence`, which are younger than the paper,
//! and that a control dependency ends with the arm of its `if`.
//!
//! Left out is what no text of the subset has: address dependencies, plain accesses, RCU, locks.

use crate::execution::Execution;
use crate::program::{Fence, Order};
use crate::relation::Relation;

/// A part of the model that can be left out, to test that the controls notice it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The axiom: accesses to one location are in one order that threads agree with.
    Coherence,
    /// The axiom: no write comes between the read and the write of an exchange.
    Atomicity,
    /// The axiom: happens-before has no cycle.
    HappensBefore,
    /// The axiom: propagates-before has no cycle.
    Propagation,
    /// `smp_mb` orders.
    FullFence,
    /// `smp_rmb` orders reads.
    ReadFence,
    /// `smp_wmb` orders writes.
    WriteFence,
    /// A read that acquires comes before what follows it.
    Acquire,
    /// A write that releases comes after what precedes it.
    Release,
    /// A write comes after the reads from which it is computed.
    Data,
    /// A write comes after the reads that decide whether it happens.
    Control,
    /// A read comes after those from which the own write that it reads was computed.
    Forwarding,
    /// Accesses to one location of which the second overwrites stay in order.
    Overwriting,
    /// A fence or release also orders what its thread has read from others.
    Cumulativity,
    /// A release reaches those that read from an exchange which has read from it.
    Exchanges,
    /// What propagates to the thread in which it began happens before.
    PropagatesBack,
}

impl Part {
    pub(crate) const ALL: [Part; 16] = [
        Part::Coherence,
        Part::Atomicity,
        Part::HappensBefore,
        Part::Propagation,
        Part::FullFence,
        Part::ReadFence,
        Part::WriteFence,
        Part::Acquire,
        Part::Release,
        Part::Data,
        Part::Control,
        Part::Forwarding,
        Part::Overwriting,
        Part::Cumulativity,
        Part::Exchanges,
        Part::PropagatesBack,
    ];
}

/// The model, whole or without one part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Model {
    pub(crate) without: Option<Part>,
}

/// The relations within a thread that its fences, releases and acquires make.
struct Fences {
    /// `strong-fence`
    full: Relation,
    wmb: Relation,
    po_rel: Relation,
    /// All of them, and the others.
    all: Relation,
}

/// Communication: what is read where, and what is overwritten.
struct Communication {
    rf: Relation,
    /// `co | fr`
    overwrite: Relation,
    internal: Relation,
}

impl Communication {
    fn within(&self, relation: &Relation) -> Relation {
        relation & &self.internal
    }

    fn across(&self, relation: &Relation) -> Relation {
        relation - &self.internal
    }
}

impl Model {
    /// All of it.
    pub(crate) const WHOLE: Model = Model { without: None };

    /// May an execution read as `rf` says, and write each location in the order `co`?
    pub(crate) fn allows(self, execution: &Execution, rf: &Relation, co: &Relation) -> bool {
        let fr = rf.inverse().then(co);
        let internal = execution.internal();
        let com = Communication { rf: rf.clone(), overwrite: co | &fr, internal };

        let po_loc = &execution.po & &execution.same_location();
        let order = &po_loc | &(&com.rf | &com.overwrite);
        let between = &execution.rmw & &com.across(&fr).then(&com.across(co));
        if self.has(Part::Coherence) && !order.is_acyclic()
            || self.has(Part::Atomicity) && !between.is_empty()
        {
            return false;
        }

        let fences = self.fences(execution);
        let prop = self.prop(execution, &com, &fences);
        let hb = self.hb(execution, &com, &fences, &prop);
        let pb = prop.then(&fences.full).then(&hb.repeated());
        (!self.has(Part::HappensBefore) || hb.is_acyclic())
            && (!self.has(Part::Propagation) || pb.is_acyclic())
    }

    fn fences(self, execution: &Execution) -> Fences {
        let (reads, writes) = (execution.reads(), execution.writes());
        let accesses = reads | writes;
        let po = &execution.po;
        let around = |fence| {
            let fences = execution.fences(fence);
            po.between(accesses, fences).then(&po.between(fences, accesses))
        };
        let full = self.part(Part::FullFence, around(Fence::Full));
        let rmb = self.part(Part::ReadFence, around(Fence::Reads).between(reads, reads));
        let wmb = self.part(Part::WriteFence, around(Fence::Writes).between(writes, writes));
        let acq_po = po.between(execution.ordered(Order::Acquire), accesses);
        let acq_po = self.part(Part::Acquire, acq_po);
        let po_rel = po.between(accesses, execution.ordered(Order::Release));
        let po_rel = self.part(Part::Release, po_rel);
        let all = &(&(&full | &rmb) | &(&wmb | &acq_po)) | &po_rel;
        Fences { full, wmb, po_rel, all }
    }

    /// Preserved program order.
    fn ppo(self, execution: &Execution, com: &Communication, fences: &Fences) -> Relation {
        let data = self.part(Part::Data, execution.data.clone());
        let writes = execution.writes();
        let control = execution.control.between(execution.reads(), writes);
        let control = self.part(Part::Control, control);
        let forwarded = self.part(Part::Forwarding, execution.data.then(&com.within(&com.rf)));
        let overwriting = self.part(Part::Overwriting, com.within(&com.overwrite));
        &(&(&data | &control) | &(&forwarded | &overwriting)) | &fences.all
    }

    /// Pairs of writes that reach every thread in their order, unless it sees neither.
    fn cumul_fence(self, execution: &Execution, com: &Communication, fences: &Fences) -> Relation {
        let read_before = self.part(Part::Cumulativity, com.across(&com.rf)).maybe();
        let cumulative = read_before.then(&(&fences.full | &fences.po_rel));
        let exchanged = self.part(Part::Exchanges, com.rf.then(&execution.rmw)).repeated();
        (&cumulative | &fences.wmb).then(&exchanged)
    }

    /// Pairs of which the first reaches a thread before the second is executed.
    fn prop(self, execution: &Execution, com: &Communication, fences: &Fences) -> Relation {
        let cumul_fence = self.cumul_fence(execution, com, fences);
        let overwrite = com.across(&com.overwrite).maybe();
        let accesses = execution.reads() | execution.writes();
        let prop = overwrite.then(&cumul_fence.repeated()).then(&com.across(&com.rf).maybe());
        prop.between(accesses, accesses)
    }

    /// Happens-before.
    fn hb(
        self,
        execution: &Execution,
        com: &Communication,
        fences: &Fences,
        prop: &Relation,
    ) -> Relation {
        // `internal` relates no event to itself.
        let back = self.part(Part::PropagatesBack, com.within(prop));
        &(&self.ppo(execution, com, fences) | &com.across(&com.rf)) | &back
    }

    fn has(self, part: Part) -> bool {
        self.without != Some(part)
    }

    /// The relation that a part makes: nothing if the part is left out.
    fn part(self, part: Part, relation: Relation) -> Relation {
        if self.has(part) { relation } else { relation.between(0, 0) }
    }
}
