/** What every store answers once it was closed. */
import { LeaseError } from '../core/errors.ts'

export function closedError(): LeaseError {
  return new LeaseError('CLOSED', 'the store was closed')
}
