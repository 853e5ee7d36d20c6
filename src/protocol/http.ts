/** What a server and the library's own client agree on beside the requests themselves. */

export const BATCH_PATH = '/v1/batch'
export const EVENTS_PATH = '/v1/events'
export const WAKES_PATH = '/v1/wakes'

/** The namespace that a request means. */
export const NAMESPACE_HEADER = 'Tenure-Namespace'
/**
 * The sessions that a stream of wake-ups is for, separated by commas, each escaped as in a URL. They are secrets, so they
 * stand in no URL.
 */
export const SESSION_HEADER = 'Tenure-Session'
/** All of them together fit into the headers that a server takes. */
export const SESSIONS_PER_STREAM_MAX = 64

export const BATCH_BYTES_MAX: number = 1024 * 1024
/** On a stream where nothing happens, something comes as often as that. */
export const STREAM_COMMENT_EVERY_MS = 15_000
