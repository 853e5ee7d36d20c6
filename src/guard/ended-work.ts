/** Work that has ended the transaction in which its mark was raised, whether or not it has begun another. */
import { LeaseError } from '../core/errors.ts'

export function endedError(): LeaseError {
  const message = 'work must not end the transaction, got one that did: what it wrote may stand'
  return new LeaseError('INVALID_INPUT', message, { details: { field: 'work' }, effect: 'unknown' })
}
