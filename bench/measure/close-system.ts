/** What was measured counts, also if its system does not close; but nobody shall have to guess why a run takes so long. */
import { reportTo } from '../../src/runtime/diagnostics.ts'
import type { OpenSystem } from '../system.ts'
import { within } from './within.ts'

export async function closeSystem(open: Pick<OpenSystem, 'close'>): Promise<void> {
  await within(open.close()).catch(reportTo('bench/close'))
}
