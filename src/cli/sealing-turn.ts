/**
 * Whose turn it is to seal a ledger: two that seal at once would number their lines alike.
 *
 * Whoever wants to seal leaves a file with its own name in the directory, and then looks for those of others. If two come
 * at once, at least one sees the other, and steps back. The file of a process that died on this host counts for nothing
 * and is swept away; nobody else ever has its name, so nothing of a living one can be swept with it.
 */
import path from 'node:path'
import { LeaseError } from '../core/errors.ts'
import { fs } from '../runtime/file-system.ts'
import { hostName, isProcessAlive, ownProcessId } from '../runtime/processes.ts'

const PREFIX = 'sealing-'
const here = new Set<string>()

/** Throws `STORE_CONFLICT` when somebody else is at it; gives back a function that ends the turn. */
export function takeTurn(directory: string): () => void {
  const host = encodeURIComponent(hostName())
  const own = `${PREFIX}${host}-${ownProcessId()}`
  const file = path.join(directory, own)
  if (here.has(file)) throw taken(file)
  fs.writeFileSync(file, '')
  const end = (): void => {
    here.delete(file)
    fs.rmSync(file, { force: true })
  }
  here.add(file)
  const others = fs.readdirSync(directory).filter((name) => name.startsWith(PREFIX) && name !== own)
  for (const name of others) {
    const maker = path.join(directory, name)
    if (isDead(name, host)) fs.rmSync(maker, { force: true })
    else {
      end()
      throw taken(maker)
    }
  }
  return end
}

/** A process of another host cannot be asked whether it lives. */
function isDead(name: string, host: string): boolean {
  const prefix = `${PREFIX}${host}-`
  const pid = Number(name.slice(prefix.length))
  return name.startsWith(prefix) && Number.isSafeInteger(pid) && !isProcessAlive(pid)
}

function taken(file: string): LeaseError {
  const message = `only one may seal at a time, got ${file} (remove it if its maker died elsewhere)`
  return new LeaseError('STORE_CONFLICT', message)
}
