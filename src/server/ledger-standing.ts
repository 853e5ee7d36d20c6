/** How a sealed ledger stands, for those who look at it through a server. */

export interface LedgerStanding {
  /** The last checkpoint: its number, when it was signed, and how many events it seals; null: nothing is sealed yet. */
  readonly checkpoint: {
    readonly sequence: number
    readonly atMs: number
    readonly events: number
  } | null
  /** When the ledger was last compared with its checkpoints and with the store. */
  readonly verifiedAtMs: number
  /** What was wrong then, in one line; null: nothing. */
  readonly problem: string | null
}
