/**
 * What the system says about a file that cannot be used: whose it is and what its mode allows. That is what a person needs
 * to know when the file is another user's.
 */
import path from 'node:path'
import { LeaseError } from '../../core/errors.ts'
import { fs, ifThere } from '../../runtime/file-system.ts'
import { ownUserId } from '../../runtime/processes.ts'

const PERMISSION_BITS = 0o7777

export function accessError(file: string, cause: unknown): LeaseError {
  const store = `sqlite:${file}`
  const why = cause instanceof Error ? cause.message : String(cause)
  return new LeaseError('STORE_UNAVAILABLE', `${store} cannot be used: ${why}${ownership(file)}`, {
    cause,
    details: { store },
  })
}

/** ` (PATH belongs to user 1000, group 1000, mode 0644; …)`; of the directory where there is no such file. */
export function ownership(file: string): string {
  const place = fs.existsSync(file) ? file : path.dirname(path.resolve(file))
  const status = ifThere(() => fs.statSync(place))
  if (status === null) return ''
  const mode = (status.mode & PERMISSION_BITS).toString(8).padStart(4, '0')
  const owner = `${place} belongs to user ${status.uid}, group ${status.gid}, mode ${mode}`
  return ` (${owner}; this process is user ${ownUserId() ?? 'unknown'})`
}
