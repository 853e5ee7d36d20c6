/** Waits for the turn of files that only one may change at a time. */
import { isLeaseError } from '../core/errors.ts'
import { takeTurn, type Turn } from '../delegation/turn.ts'
import { ownProcessId } from '../runtime/processes.ts'

const WAIT_MS_MAX = 5_000
const PAUSE_MS = 10
const PAUSES = 40

/** Waits a few seconds for the turn, for something that takes no longer than a moment. */
export async function waitForTurn(turn: Turn): Promise<() => void> {
  const untilMs = performance.now() + WAIT_MS_MAX
  // Two that step back from each other must not come back together.
  const pauseMs = PAUSE_MS + (ownProcessId() % PAUSES)
  for (;;) {
    try {
      return takeTurn(turn)
    } catch (error) {
      const isTaken = isLeaseError(error) && error.code === 'STORE_CONFLICT'
      if (!isTaken || performance.now() >= untilMs) throw error
    }
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
  }
}
