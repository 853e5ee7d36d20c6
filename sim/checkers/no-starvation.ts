/**
 * No writer starves: while an exclusive request waits, no later shared request (by order key) is granted, however
 * many there are that already share.
 */
import { seconds, short, type Checker } from '../evidence.ts'
import { passings } from './turns.ts'

export const noStarvation: Checker = {
  promise: 'I9',
  name: 'no writer starves',
  check: (evidence) =>
    passings(evidence)
      .filter(({ mode, passed }) => mode === 'shared' && passed.mode === 'exclusive')
      .map(({ served: { event, atUs }, passed }) => {
        const reader = `${event.holder} (${short(event.leaseId)})`
        return (
          `${reader} came to share ${event.resource} at ${seconds(atUs)} past the writer ` +
          `${short(passed.leaseId)}, who waits`
        )
      }),
}
