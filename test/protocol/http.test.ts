/** Servers and clients of different versions meet: what they agree on stays as it is. */
import { expect, it } from 'vitest'
import * as agreed from '../../src/protocol/http.ts'

it('a server and a client agree on paths, headers and bounds, whatever version each of them is of', () => {
  expect({ ...agreed }).toEqual({
    BATCH_PATH: '/v1/batch',
    EVENTS_PATH: '/v1/events',
    WAKES_PATH: '/v1/wakes',
    NAMESPACE_HEADER: 'Tenure-Namespace',
    SESSION_HEADER: 'Tenure-Session',
    SESSIONS_PER_STREAM_MAX: 64,
    BATCH_BYTES_MAX: 1_048_576,
    STREAM_COMMENT_EVERY_MS: 15_000,
  })
})
