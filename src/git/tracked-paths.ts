/** The files that a repository tracks. */
import { isUtf8 } from 'node:buffer'
import { git } from './git-command.ts'

/** From its top, as text: a name that is no UTF-8 has no JSON form. */
export async function trackedPaths(root: string): Promise<readonly string[]> {
  const listed = await git(['ls-files', '-z'], { cwd: root })
  const paths: string[] = []
  for (let start = 0; start < listed.length;) {
    const end = listed.indexOf(0, start)
    const name = listed.subarray(start, end < 0 ? listed.length : end)
    if (isUtf8(name)) paths.push(name.toString())
    start = end < 0 ? listed.length : end + 1
  }
  return paths
}
