/**
 * Every maximum that Tenure enforces, in one place. Beyond any of them the answer is an error that names the limit.
 */

export const TTL_MS_MIN = 1
export const TTL_MS_MAX = 2_592_000_000
/** Of a lease that its holder renews by itself: a holder that dies blocks the others for so long at most. */
export const RENEWED_TTL_MS_DEFAULT = 30_000
export const MAX_HOLD_MS_MAX = 31_536_000_000
export const WAIT_MS_MAX = 86_400_000
/** The longest hold of what a coding agent's client takes for it, with however many renewals: one that hangs must end. */
export const AGENT_HOLD_MS_MAX = 14_400_000
export const HOLDER_BYTES_MAX = 128
export const SESSION_BYTES_MAX = 128
/** Ids in a registrar's events, the names of its clocks, and its signatures. */
export const REGISTRAR_ID_BYTES_MAX = 128
export const SIGNATURE_BYTES_MAX = 512
/** What a registrar's event says, as JSON: half of the longest line that is read of a ledger. */
export const REGISTRAR_PAYLOAD_BYTES_MAX = 8_388_608
export const NAME_BYTES_MAX = 1024
export const NOTE_BYTES_MAX = 1024
export const TICKETS_PER_REALM_MAX = 10_000
/** What one look at a place shows: a full queue, and as many who share what it waits for. */
export const INSPECT_LIMIT_MAX = 20_000
export const PRIORITY_MIN = -100
export const PRIORITY_MAX = 100
/** What one point of priority is worth in the queue. A point buys time, so no waiter starves. */
export const PRIORITY_POINT_MS = 10_000
/** Resources in one request for several. */
export const ALL_MEMBERS_MAX = 64
/** Leases that one request may be said to wait under. */
export const UNDER_MAX = 64
/** Epochs that one commit may use up. */
export const EPOCHS_PER_ADVANCE_MAX = 100_000
export const SLOTS_MAX = 10_000
export const MAX_RENEWALS_MAX = 2_147_483_647
export const LIST_LIMIT_MAX = 10_000
export const LIST_LIMIT_DEFAULT = 1_000

/** Members of one set of a scope, and the length of each. */
export const SCOPE_ITEMS_MAX = 64
export const SCOPE_ITEM_BYTES_MAX = 256
/** How many derivations may stand between a lease and its root. */
export const DERIVATION_DEPTH_MAX = 16
/** Live leases that were derived from one and the same. */
export const CHILDREN_MAX = 64

/**
 * No number in a ledger that is imported is beyond it: fences, epochs, and times in microseconds, which come there in
 * 2112. Above it a store has room to go on for as long again, and reads what it wrote there.
 */
export const LEDGER_NUMBER_MAX: number = 2 ** 52
/** How much longer than its TTL a lease may last at most, since its end counts from the last moment of its commit. */
export const COMMIT_SLACK_MS_MAX = 60_000

/** Events of a ledger that a store is rebuilt from in one commit. A server takes about a second for so many. */
export const RESTORE_STEP_EVENTS = 5_000

/** An offer, or a ticket for which no other speaks, lives this long unless its waiter is heard of again. */
export const CLAIM_WINDOW_MS_DEFAULT = 5_000
export const CLAIM_WINDOW_MS_MIN = 50
export const CLAIM_WINDOW_MS_MAX = 60_000

/** A request id is remembered with its effect for at least this long, or for the lease's TTL if longer. */
export const REQUEST_MEMORY_MS_MIN = 86_400_000
/** How far after the last prune a clock may be to be believed at once, and by how much a prune moves one that is further. */
export const PRUNE_STEP_MS = 86_400_000
/** Rows in which a store counts refusals; the one whose last refusal is the longest ago makes room. */
export const REFUSALS_MAX = 10_000
/** A hundred years. */
export const RETENTION_DAYS_MAX = 36_500

/** A server whose clock is further behind the last commit of a realm is not believed: nothing is decided there. */
export const STORE_CLOCK_BEHIND_US_MAX = 5_000_000
