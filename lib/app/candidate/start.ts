import type { CandidateParts, FollowedCandidate } from './candidate.ts';

/** Null where no candidate policy is configured: then nothing of it is loaded. */
export async function startCandidate(parts: CandidateParts): Promise<FollowedCandidate | null> {
  if (parts.config.candidatePath === null) return null;
  const { followCandidate } = await import('./candidate.ts');
  return followCandidate(parts);
}
