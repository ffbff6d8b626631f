//! Deliberate bugs, to try the tests with: each must be found by the simulator (`cargo xtask mutants`).
//!
//! Only with the feature `mutants` can one be chosen, for the whole process; without it [`is`] is false
//! for every one of them at compile time, and nothing is left of them in the program.
//!
//! Of the known mistakes of others one is not among them: a byte per block to say that it is valid is waste,
//! not an error.

/// Where the idea of a mutant comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A mistake that another array of zoned drives has made.
    Others,
    /// A bug that this engine once had.
    Past,
    /// A mechanism of this engine, or a check, taken away.
    Ours,
}

/// What there is to know of a mutant.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Which one.
    pub mutant: Mutant,
    /// Its name on command lines.
    pub name: &'static str,
    /// What is wrong then.
    pub what: &'static str,
    /// Where it comes from.
    pub source: Source,
}

macro_rules! mutants {
    ($($source:ident { $(#[doc = $what:literal] $mutant:ident = $name:literal,)* })*) => {
        /// A deliberate bug.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Mutant {
            $($(#[doc = $what] $mutant,)*)*
        }

        /// All of them.
        pub const ALL: &[About] = &[$($(
            About { mutant: Mutant::$mutant, name: $name, what: $what, source: Source::$source },
        )*)*];
    };
}

mutants! {
    Others {
        /// Parity is encoded before the last data block of the stripe is in place.
        ParityTooEarly = "parity-too-early",
        /// All blocks of a chunk get the sequence of the first.
        OneSequencePerChunk = "one-sequence-per-chunk",
        /// The collector stamps the blocks it moves as new.
        CollectorStampsNew = "collector-stamps-new",
        /// The index is updated in the order of completions.
        IndexedInOrderOfCompletion = "indexed-in-order-of-completion",
        /// Sequences begin anew after a mount.
        SequencesRestart = "sequences-restart",
        /// The layout counts on the size of a zone instead of its capacity.
        SizeInsteadOfCapacity = "size-instead-of-capacity",
        /// Only one open segment is recovered.
        OneOpenSegment = "one-open-segment",
        /// When a zone's header is missing, the other zones of its segment are reset.
        GoodZonesReset = "good-zones-reset",
        /// When one copy of its header is damaged, a segment is dropped.
        OneHeaderDropsSegment = "one-header-drops-segment",
        /// A slot that holds the first stripe of its group is taken for an empty one.
        StripeZeroIsEmpty = "stripe-zero-is-empty",
        /// A chunk of which only the first blocks arrived is taken for a whole one.
        TornChunkAccepted = "torn-chunk-accepted",
        /// Repair rotates parity in another way than the rest.
        RotationDiffersInRepair = "rotation-differs-in-repair",
        /// A footer holds the entries of another zone.
        FooterOfAnotherZone = "footer-of-another-zone",
        /// A segment that was being sealed at a crash is left as it is.
        SealingNotResumed = "sealing-not-resumed",
        /// The write pointer of a full zone is believed.
        PointerOfFullZoneTrusted = "pointer-of-full-zone-trusted",
        /// A degraded read decodes the first block of the chunk, whichever was asked for.
        DegradedReadsFirstRow = "degraded-reads-first-row",
        /// A drive that comes back after it missed writes is believed.
        StaleDriveBelieved = "stale-drive-believed",
        /// A drive's place in the list is taken for its place in the array.
        PlaceInsteadOfMember = "place-instead-of-member",
        /// A media error ends the process.
        ReadErrorPanics = "read-error-panics",
        /// Writes of 256 KiB hang.
        LargeWriteHangs = "large-write-hangs",
        /// Clients' stripes wait for the collector as its own do.
        UserWaitsForCollector = "user-waits-for-collector",
        /// Only drive 0 is rebuilt; of others it is only said.
        RebuildOfDriveZero = "rebuild-of-drive-zero",
        /// A rebuild that a crash has cut short is not resumed.
        RebuildNotResumed = "rebuild-not-resumed",
        /// The first parity of RAID-6 is entered in the index.
        ParityInIndex = "parity-in-index",
    }
    Past {
        /// The collector closes its last stripe before it has placed what waits for it.
        SealsBeforePlacing = "seals-before-placing",
        /// Blocks that never arrived below the write pointer are taken for damage.
        BlankIsDamage = "blank-is-damage",
        /// A trim of a block whose write failed writes no tombstone, for nothing is mapped.
        FailedWriteForgotten = "failed-write-forgotten",
        /// A device flush that lost a drive is not repeated on the others.
        FlushNotRepeated = "flush-not-repeated",
        /// When two chunks say they are the same, the stripe that one of them is really of gets no slot.
        SecondChunkWithoutSlot = "second-chunk-without-slot",
        /// Stripes that were never acknowledged count even when rot has taken their data.
        UnacknowledgedRotCounts = "unacknowledged-rot-counts",
        /// What recovery wrote and moved is not flushed before service.
        RecoveryNotFlushed = "recovery-not-flushed",
        /// A segment is sealed while its blocks are in volatile caches.
        SealedWithoutFlush = "sealed-without-flush",
        /// With more members failed than can be lost, stripes that lack a piece are acknowledged.
        BrokenAcknowledges = "broken-acknowledges",
        /// With more members failed than can be lost, the collector goes on erasing.
        BrokenErases = "broken-erases",
        /// A stripe of a drive that failed within its group gets the slot of another.
        MissingPlacedBlindly = "missing-placed-blindly",
        /// What is not whole when a stripe is loaded is not read again.
        LoadsReadOnce = "loads-read-once",
        /// What a mount finds damaged is not read again.
        BlocksReadOnce = "blocks-read-once",
        /// A piece that repair finds damaged is not read again.
        PiecesReadOnce = "pieces-read-once",
        /// Segments are sealed though recovery must begin anew.
        VoidRecoverySeals = "void-recovery-seals",
        /// Segments are collected while recovery may have to begin anew without what superseded them.
        CollectsBeforeRescue = "collects-before-rescue",
        /// A member that was being rebuilt and fails during recovery takes nothing along.
        RebuiltIsLostAlready = "rebuilt-is-lost-already",
        /// To a checkpoint, a segment that was closed early has given out all its stripes.
        ClosedCountsAsFull = "closed-counts-as-full",
        /// Segments that a crash left with room stay open, though other streams need their active zones.
        UnfinishedStayOpen = "unfinished-stay-open",
        /// Segments that a crash left to one stream keep the space that another waits for.
        UnfinishedStarve = "unfinished-starve",
        /// Blocks that a rebuild could not decode stay where they are, beside others that the same stripe is short of.
        UndecodableKept = "undecodable-kept",
        /// What a block says when it is read again counts, whatever it said before.
        SecondAnswerCounts = "second-answer-counts",
        /// What a zone that ends early lacks is taken for damage, whatever caches do.
        LaggingIsDamage = "lagging-is-damage",
        /// A write after a trim is lost with a cache, and the trim with it: later tombstones no longer name it.
        OnlyNewestTombstone = "only-newest-tombstone",
        /// A filler that was read in place of another block is believed at once.
        AnyFillerBelieved = "any-filler-believed",
        /// An older header in a zone, read by mistake, speaks against the newer ones of the segment.
        OlderHeaderWins = "older-header-wins",
        /// The baseline's flush does not wait for resets of zones before it.
        RaiznFlushIgnoresResets = "raizn-flush-ignores-resets",
        /// What was to move to the log of a drive that has died goes on waiting in the baseline.
        RaiznFailedLogAwaited = "raizn-failed-log-awaited",
        /// A mount of the baseline goes on when a drive fails beside one that is missing, and erases the old logs.
        RaiznRecoversBroken = "raizn-recovers-broken",
        /// A check calls the index wrong that points to a hole whose stripe recovery has yet to move.
        CheckKnowsNoWeak = "check-knows-no-weak",
        /// A stripe table that is read again has the stripes that recovery found void.
        VoidStripesInTables = "void-stripes-in-tables",
        /// A mount tells blocks apart that say the same, but not those that say it once one of them was asked again.
        ToldApartOnce = "told-apart-once",
        /// A mount of the baseline acts upon an epoch that one log alone may know to be complete.
        RaiznEpochNotAgreed = "raizn-epoch-not-agreed",
        /// A mount of the baseline finishes a reset that one log alone may know of.
        RaiznResetNotAgreed = "raizn-reset-not-agreed",
        /// A recovery that must begin anew waits until its rebuild is over.
        VoidRecoveryComesToRest = "void-recovery-comes-to-rest",
        /// A rebuild leaves dead segments to a collector that collects nothing any more.
        DeadAwaitNobody = "dead-await-nobody",
        /// A mapping block that cannot be read keeps its place, and its segment can never be collected.
        LostGroupKeepsItsPlace = "lost-group-keeps-its-place",
        /// A block that a stripe table is read from, for want of footers, is believed at once.
        TableBlocksReadOnce = "table-blocks-read-once",
        /// To a stripe table that is read again, a chunk that was torn and filled up is a chunk.
        TornChunkInTable = "torn-chunk-in-table",
        /// A read that waits for a stripe table and goes on for another reason is still thought to wait.
        ReadAwaitsForEver = "read-awaits-for-ever",
        /// A summary is believed of a zone that a rebuild wrote since, in another order.
        SummarySpeaksForRebuilt = "summary-speaks-for-rebuilt",
        /// What waits for a stripe that can be written nowhere goes on with the next event, and there may be none.
        FailureAwaitsEvent = "failure-awaits-event",
        /// A summary that a zone lacks is completed beside the chunks that it describes, which go to other slots.
        LostSummaryCompleted = "lost-summary-completed",
        /// Headers of a segment may reach a drive before those of an older one.
        HeadersOvertake = "headers-overtake",
        /// A drive whose media went back to an earlier moment is believed.
        OlderCopyBelieved = "older-copy-believed",
        /// A segment is dropped when one drive's zone of it is empty, though the others hold data.
        EmptyZoneDropsSegment = "empty-zone-drops-segment",
        /// A checkpoint is used though a drive went back to before a segment was sealed that it describes.
        CheckpointOutlivesRollback = "checkpoint-outlives-rollback",
        /// Under Zone Append, a zone is completed in place that ends before what a summary says of it.
        CompletedBehindSummary = "completed-behind-summary",
    }
    Ours {
        /// A rebuilt zone becomes full while what made its chunks dead is in the caches of other drives.
        RebuiltZoneFlushedAlone = "rebuilt-zone-flushed-alone",
        /// What a drive once held is asked of one other drive only.
        OlderCopyComparedOnce = "older-copy-compared-once",
        /// An older copy of a drive is believed when another member is missing.
        OlderCopyBelievedWhenDegraded = "older-copy-believed-when-degraded",
        /// A drive that holds just what it is known to have held is called an older copy.
        EqualCopyIsOlder = "equal-copy-is-older",
        /// A record says that it has settled while it is being written.
        SettledTooEarly = "settled-too-early",
        /// A mount does not record that all members hold its record.
        MountNotSettled = "mount-not-settled",
        /// A drive that went back to a moment in its rebuild is believed to hold everything.
        RebuildingCopyBelieved = "rebuilding-copy-believed",
        /// Of what a drive lacks that may have lost a volatile cache, all is taken for promised.
        UnprovenIsPromised = "unproven-is-promised",
        /// A zone that a drive lacks which went back is not marked, and the next mount takes its segment for erased.
        LackingZoneNotMarked = "lacking-zone-not-marked",
        /// A write is acknowledged with one piece still in flight.
        AnsweredOnePieceEarly = "answered-one-piece-early",
        /// A write is acknowledged before the failure of a member that lacks it is recorded.
        AnsweredBeforeRecorded = "answered-before-recorded",
        /// A refused write of a chunk is taken for done.
        WriteErrorIgnored = "write-error-ignored",
        /// Chunks are written before the headers of their segment are durable.
        ChunksBeforeHeaders = "chunks-before-headers",
        /// A chunk is handed to a zone before all of the groups before it have landed there.
        GroupRuleIgnored = "group-rule-ignored",
        /// Parity does not protect metadata.
        MetadataWithoutParity = "metadata-without-parity",
        /// The second parity is computed with the factors of the first.
        SecondParityAsFirst = "second-parity-as-first",
        /// A piece is decoded as if no other data piece were lost.
        OtherLossForgotten = "other-loss-forgotten",
        /// The checksum of the second parity is derived as if it were an XOR.
        SecondChecksumDerived = "second-checksum-derived",
        /// What is read to decode from is not made up for when it is damaged.
        FirstSourcesOnly = "first-sources-only",
        /// A mirror holds the copy of another piece.
        CopyOfAnother = "copy-of-another",
        /// With two members lost, the failure of the second is not recorded.
        SecondFailureNotRecorded = "second-failure-not-recorded",
        /// Padding holds what its memory held before.
        PaddingNotCleared = "padding-not-cleared",
        /// A stripe's deadline that nobody looked at in time passes for ever.
        DeadlineMissed = "deadline-missed",
        /// What completions allow is not looked at before time passes.
        CompletionsNotSettled = "completions-not-settled",
        /// A drive that takes twenty seconds for a chunk is failed.
        SlowDriveGivenUp = "slow-drive-given-up",
        /// A flush does not wait for the writes before it.
        FlushIgnoresWrites = "flush-ignores-writes",
        /// A flush is answered without flushing the drives.
        FlushNotSent = "flush-not-sent",
        /// A flush joins the device flush that is under way.
        FlushJoinsAnother = "flush-joins-another",
        /// A forced write is answered without flushing the drives.
        FuaWithoutFlush = "fua-without-flush",
        /// Segments of large chunks are not found by a mount.
        LargeSegmentsNotFound = "large-segments-not-found",
        /// A deadline closes stripes of small chunks only.
        DeadlineForgetsLarge = "deadline-forgets-large",
        /// A spare stripe table is used for segments of any size.
        AnyTableFits = "any-table-fits",
        /// A trim writes no tombstone.
        TrimWithoutTombstone = "trim-without-tombstone",
        /// A tombstone does not repeat the trims before it.
        TombstoneForgets = "tombstone-forgets",
        /// In recovery a tombstone hides newer copies too.
        TombstoneHidesNewer = "tombstone-hides-newer",
        /// Trims begin while writes of their region are under way.
        TrimsIgnoreWrites = "trims-ignore-writes",
        /// Writes begin while their region is being trimmed.
        WritesIgnoreTrims = "writes-ignore-trims",
        /// The collector moves tombstones as padding.
        CollectorDropsTombstones = "collector-drops-tombstones",
        /// The collector does not wait until moved copies are durable.
        ErasedBeforeMoved = "erased-before-moved",
        /// The collector erases a segment that is being read.
        ErasedWhileRead = "erased-while-read",
        /// The collector erases before moved copies have left the drives' caches.
        ErasedWithoutFlush = "erased-without-flush",
        /// A moved copy counts even if a client has written the block meanwhile.
        CollectorOverwrites = "collector-overwrites",
        /// Segments that cannot be completed are not collected.
        CondemnedKept = "condemned-kept",
        /// Clients use the space that the collector needs.
        ReserveForAll = "reserve-for-all",
        /// One zone more than the drives allow is active.
        OneActiveZoneTooMany = "one-active-zone-too-many",
        /// Zones that were reset are not used again.
        ZoneLeakedByReset = "zone-leaked-by-reset",
        /// The count of a segment's live blocks is lowered by two for each that dies.
        LiveCountDrifts = "live-count-drifts",
        /// A degraded read keeps the frames it read into.
        DegradedReadLeaks = "degraded-read-leaks",
        /// Reads verify nothing.
        ReadsNotVerified = "reads-not-verified",
        /// Reads verify the checksum of the data but not whose data it is.
        ReadsVerifyDataOnly = "reads-verify-data-only",
        /// Pieces are decoded from without being verified.
        LoadsNotVerified = "loads-not-verified",
        /// The checksum of out-of-band metadata is not looked at.
        MetadataCrcIgnored = "metadata-crc-ignored",
        /// The checksum of footers is not looked at.
        FooterCrcIgnored = "footer-crc-ignored",
        /// The checksum of headers is not looked at.
        HeaderCrcIgnored = "header-crc-ignored",
        /// The checksum of superblocks is not looked at.
        SuperblockCrcIgnored = "superblock-crc-ignored",
        /// Lost blocks read as zeros.
        LostReadsAsZeros = "lost-reads-as-zeros",
        /// Markers of lost blocks are not recognised.
        LostMarkerIgnored = "lost-marker-ignored",
        /// Chunks that wait for a drive go on waiting when it fails.
        WaitingChunksKept = "waiting-chunks-kept",
        /// A mount is not recorded before it writes.
        MountNotRecorded = "mount-not-recorded",
        /// A mount does not raise the epoch: segment ids are used twice.
        SegmentIdsRestart = "segment-ids-restart",
        /// That a member missed a mount is not recorded.
        AbsenceNotRecorded = "absence-not-recorded",
        /// An array is mounted with one member less than it needs.
        MountsWithTooFew = "mounts-with-too-few",
        /// A drive of another array is taken for a member.
        ForeignDriveAccepted = "foreign-drive-accepted",
        /// A drive without a superblock is taken for the member that is missing.
        BlankDriveAccepted = "blank-drive-accepted",
        /// The superblock log never changes zones.
        SuperblockZoneOverflows = "superblock-zone-overflows",
        /// When its zone is full, the superblock log begins anew in the same one.
        SuperblocksErased = "superblocks-erased",
        /// The write pointer of a read-only zone is believed.
        PointerOfReadOnlyZoneTrusted = "pointer-of-read-only-zone-trusted",
        /// A zone that went offline is taken for one that was never written.
        OfflineIsEmpty = "offline-is-empty",
        /// A zone that a reset has left smaller is used again.
        ShrunkZoneUsed = "shrunk-zone-used",
        /// Which segments a replaced drive lacks is not recorded.
        RebuildForgetsWhere = "rebuild-forgets-where",
        /// A rebuilt zone becomes full while its blocks are in the drive's cache.
        RebuiltWithoutFlush = "rebuilt-without-flush",
        /// Whoever waits for its rate is never woken.
        PacerNeverWakes = "pacer-never-wakes",
        /// The collector keeps the pace of clients who write nothing: it rests in the middle of a victim.
        PacedWithoutClients = "paced-without-clients",
        /// The collector rests where clients have no segment left that they may open.
        PacedWithoutRoom = "paced-without-room",
        /// Clients wait for their next burst when nothing is collected any more.
        BurstOutlivesVictim = "burst-outlives-victim",
        /// The last stripe of a victim waits for clients' blocks, however few come.
        RemainderWithoutDeadline = "remainder-without-deadline",
        /// The last cold blocks of a victim wait for more of them.
        ColdRemainderForgotten = "cold-remainder-forgotten",
        /// A zone that was chosen among the free ones stays one of them.
        ChosenZoneStaysFree = "chosen-zone-stays-free",
        /// A scrub does not look at parity.
        ScrubIgnoresParity = "scrub-ignores-parity",
        /// A scrub leaves damaged segments as they are.
        ScrubKeepsDamaged = "scrub-keeps-damaged",
        /// A scrub passes over segments that are open.
        ScrubSkipsOpen = "scrub-skips-open",
        /// A segment whose headers were not all written is taken for one that holds data.
        TornHeadersCount = "torn-headers-count",
        /// Zones of segments that do not count are not reset.
        DiscardedNotReset = "discarded-not-reset",
        /// A block that says it belongs elsewhere is believed to belong here.
        MisplacedBelieved = "misplaced-believed",
        /// Stripes with fewer than k chunks are kept.
        TooFewChunksKept = "too-few-chunks-kept",
        /// That recovery once closed a group is not noticed.
        FillersIgnored = "fillers-ignored",
        /// Recovery leaves the last group open.
        GroupLeftOpen = "group-left-open",
        /// Recovery writes fillers where a stripe lacks a piece.
        CompletedWithFillers = "completed-with-fillers",
        /// Stripes that recovery cannot complete are left as they are.
        WeakNotMoved = "weak-not-moved",
        /// Neighbours are not asked what lost metadata said.
        WitnessesNotAsked = "witnesses-not-asked",
        /// Blocks repeat their own metadata instead of a neighbour's.
        NeighbourIsSelf = "neighbour-is-self",
        /// In recovery the newest segment wins, not the newest sequence.
        NewestSegmentWins = "newest-segment-wins",
        /// A tombstone that cannot be read is taken to have said nothing.
        DoubtIgnored = "doubt-ignored",
        /// A checkpoint begins while stripes are in flight.
        CheckpointWithoutDrain = "checkpoint-without-drain",
        /// What a checkpoint names may be in volatile caches when it counts.
        CheckpointNotFlushed = "checkpoint-not-flushed",
        /// What was written since a checkpoint to segments that were open then is passed over.
        RedoBeginsLate = "redo-begins-late",
        /// What was written before a checkpoint to segments that were open then counts before what it says.
        RedoTakesAll = "redo-takes-all",
        /// Trims since a checkpoint are forgotten by a mount that uses it.
        TrimsNotRedone = "trims-not-redone",
        /// A checkpoint does not say which blocks are trimmed.
        TrimmedNotSaved = "trimmed-not-saved",
        /// When a stripe table has been read, reads that wait for it go on waiting.
        TableLoadLosesItsWaiters = "table-load-loses-its-waiters",
        /// The stripe table of a segment that is being read is dropped.
        TableDroppedInUse = "table-dropped-in-use",
        /// In a stripe table that is read again, the index is not asked where the chunks of a missing drive are.
        MissingZoneTakenAsItComes = "missing-zone-taken-as-it-comes",
        /// In a stripe table that is read again, the oldest version of a block is where the index points.
        OldestVersionPlaced = "oldest-version-placed",
        /// When a footer is damaged, the blocks are not asked for what it said.
        TablesFromFootersOnly = "tables-from-footers-only",
        /// The collector drops the blocks of checkpoints.
        MappingBlocksNotMoved = "mapping-blocks-not-moved",
        /// Groups of the index are evicted although they changed since they were written.
        DirtyGroupsDropped = "dirty-groups-dropped",
        /// A group that changed while it was written counts as written.
        ChangedGroupCountsAsWritten = "changed-group-counts-as-written",
        /// The collector takes blocks of groups that are not in memory for dead.
        AbsentGroupCountsAsDead = "absent-group-counts-as-dead",
        /// A mapping block is read from where it lay, though the collector moved it and erased that place.
        MovedGroupReadFromOldPlace = "moved-group-read-from-old-place",
        /// A write passes one of the same blocks that waits for a group of the index.
        WritesPassThemselves = "writes-pass-themselves",
        /// Segments that a crash left to the collector stay open, though others need their zones.
        CollectorsUnfinishedStay = "collectors-unfinished-stay",
        /// Segments of mapping blocks that lack the zone of a drive that came later are not collected.
        MappingSegmentsLack = "mapping-segments-lack",
        /// A block that could not be written holds its group for ever.
        FailedBlockKeepsItsPin = "failed-block-keeps-its-pin",
        /// The baseline logs no partial parity.
        RaiznPartialNotLogged = "raizn-partial-not-logged",
        /// The baseline answers a write before its partial parity is durable.
        RaiznAnsweredBeforePartial = "raizn-answered-before-partial",
        /// The baseline answers writes before the failure of a member that lacks them is recorded.
        RaiznAnsweredBeforeRecorded = "raizn-answered-before-recorded",
        /// The baseline's flush does not wait for the writes before it.
        RaiznFlushIgnoresWrites = "raizn-flush-ignores-writes",
        /// The baseline resets a log zone with partial parity of open stripes in it.
        RaiznLogNotCheckpointed = "raizn-log-not-checkpointed",
        /// Parity that the baseline has relocated does not move to the next log zone.
        RaiznRelocatedNotMoved = "raizn-relocated-not-moved",
        /// The baseline's mount forgets parity that an earlier one has relocated.
        RaiznRelocatedForgotten = "raizn-relocated-forgotten",
        /// The baseline takes parity of writes that never came for that of zeros.
        RaiznWrongParityKept = "raizn-wrong-parity-kept",
        /// Degraded reads of the baseline decode from parity that was relocated, where it was before.
        RaiznReadsParityInPlace = "raizn-reads-parity-in-place",
        /// The baseline's mount does not finish resets that were recorded.
        RaiznResetsNotFinished = "raizn-resets-not-finished",
        /// The baseline's replay takes partial parity from before the reset of a zone.
        RaiznGenerationIgnored = "raizn-generation-ignored",
        /// The baseline's rebuild leaves out stripes that are open.
        RaiznRebuildSkipsOpen = "raizn-rebuild-skips-open",
        /// The baseline's rebuild writes no partial parity to the new log.
        RaiznRebuiltWithoutLog = "raizn-rebuilt-without-log",
        /// The baseline's rebuild decodes from parity that was relocated, where it was before.
        RaiznRebuildsFromParityInPlace = "raizn-rebuilds-from-parity-in-place",
        /// The baseline believes a drive that was replaced when it comes back.
        RaiznReplacedDriveBelieved = "raizn-replaced-drive-believed",
        /// What a summary describes may be in volatile caches when it is written.
        SummaryNotFlushed = "summary-not-flushed",
        /// A summary takes every block for one that a client wrote.
        SummaryForgetsKinds = "summary-forgets-kinds",
        /// A summary says that chunks lie in slots of their own number.
        SummaryForgetsSlots = "summary-forgets-slots",
        /// What a summary says is believed although its checksum fails.
        SummaryNotChecked = "summary-not-checked",
        /// A mount that has found a summary reads nothing else of its segment.
        SummaryHidesRest = "summary-hides-rest",
    }
}

/// The mutant of a name.
#[must_use]
pub fn from_name(name: &str) -> Option<Mutant> {
    ALL.iter().find(|about| about.name == name).map(|about| about.mutant)
}

/// The number of the mutant that was chosen, from one; zero is none.
#[cfg(feature = "mutants")]
static CHOSEN: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Chooses the mutant that this process is, from now on.
#[cfg(feature = "mutants")]
pub fn choose(mutant: Option<Mutant>) {
    CHOSEN.store(mutant.map_or(0, number), std::sync::atomic::Ordering::SeqCst);
}

/// True when this process was made to have the bug.
#[cfg(feature = "mutants")]
#[inline]
#[must_use]
pub fn is(mutant: Mutant) -> bool {
    CHOSEN.load(std::sync::atomic::Ordering::Relaxed) == number(mutant)
}

#[cfg(feature = "mutants")]
const fn number(mutant: Mutant) -> u8 {
    mutant as u8 + 1
}

/// True when this process was made to have the bug: never in this build.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
#[must_use]
pub const fn is(_: Mutant) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_tell_them_apart_and_follow_the_code() {
        let names: BTreeSet<&str> = ALL.iter().map(|about| about.name).collect();
        assert_eq!(names.len(), ALL.len());
        for about in ALL {
            let mut kebab = String::new();
            for letter in format!("{:?}", about.mutant).chars() {
                if letter.is_uppercase() && !kebab.is_empty() {
                    kebab.push('-');
                }
                kebab.extend(letter.to_lowercase());
            }
            assert_eq!(about.name, kebab);
            assert_eq!(from_name(about.name), Some(about.mutant));
            assert!(about.what.ends_with('.'), "{}", about.name);
            assert!(!is(about.mutant), "none is chosen");
        }
        assert_eq!(from_name("none"), None);
    }
}
