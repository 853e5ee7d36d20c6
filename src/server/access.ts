/** What a server tells of each request, for its log. */

export interface AccessEntry {
  readonly atMs: number
  readonly method: string
  /** Without its query. */
  readonly path: string
  /** 499: the caller had gone. */
  readonly status: number
  readonly tookMs: number
  /** The name of the token, never the token; null where nobody was identified. */
  readonly token: string | null
}

export type OnRequest = (entry: AccessEntry) => void
