/**
 * Whether the events of a store could have been decided one after the other. A store whose tables were changed behind its
 * back may grant what is held already, and writes that down: no event was changed, and yet two hold alone.
 */
import { CheckedFold } from '../ledger/checked-fold.ts'
import { report } from '../runtime/diagnostics.ts'
import type { Questions } from '../service/lease-questions.ts'
import type { LedgerEntry } from '../store-port/store.ts'
import { eventsAfter } from './ledger-source.ts'

export interface Contradiction {
  readonly position: string
  readonly problem: string
}

/**
 * The first event that does not follow from those before it; null if there is none. Retention may take the end of a lease
 * out between two pages, after its beginning was read; so a contradiction is looked for a second time.
 */
export async function firstContradiction(
  questions: Pick<Questions, 'history'>,
): Promise<Contradiction | null> {
  const found = await contradictionIn(questions)
  if (found === null) return null
  const again = await contradictionIn(questions)
  return again?.position === found.position ? again : null
}

async function contradictionIn(
  questions: Pick<Questions, 'history'>,
): Promise<Contradiction | null> {
  const fold = new CheckedFold()
  let line = 0
  for await (const entry of eventsAfter(questions, null)) {
    line += 1
    const problem = problemOf(fold, entry, line)
    if (problem === null) continue
    const { position, event } = entry
    return {
      position,
      problem: `${event.type} at position ${position} does not follow: ${problem}`,
    }
  }
  return null
}

/** A lease whose beginning is not told is judged by what the store keeps of it: its history may have been off. */
function problemOf(fold: CheckedFold, { event }: LedgerEntry, line: number): string | null {
  try {
    return fold.take(event, line)
  } catch (error) {
    report('cli/verify', error)
    return null
  }
}
