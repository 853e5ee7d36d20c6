/**
 * What it means that a path could not be looked at. A file that cannot be read is not one that is absent: taking it for
 * that would give one file two names, or one host two clocks. So the question stays unanswered, with an error that says
 * whose turn it is: the caller's, who named a path that cannot be followed, or the system's, which may do better later.
 */
import { LeaseError, show } from './errors.ts'

const PATH_FAULTS: ReadonlySet<unknown> = new Set(['ELOOP', 'EACCES', 'ENAMETOOLONG'])

/** Whatever is no answer of the operating system comes back as it is. */
export function pathError(field: string, path: string, cause: unknown): unknown {
  if (!(cause instanceof Error) || !('syscall' in cause) || !('code' in cause)) return cause
  const { code, message } = cause
  const details = { field, path }
  if (PATH_FAULTS.has(code)) {
    const text = `${field} must be a path that can be followed, got ${show(path)}: ${message}`
    return new LeaseError('INVALID_INPUT', text, { details, cause })
  }
  const text = `${field} ${show(path)} cannot be looked at: ${message}`
  return new LeaseError('STORE_UNAVAILABLE', text, { details, cause })
}
